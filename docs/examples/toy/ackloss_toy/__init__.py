"""A plug-in of each kind for ackloss, in a package of its own."""
