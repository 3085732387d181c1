"""Small frames and figures from findings and histories, one file per kind."""
