"""A plug-in of each kind for ackloss, in a separate package."""
