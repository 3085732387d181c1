"""Pages: frames and findings to self-contained HTML."""
