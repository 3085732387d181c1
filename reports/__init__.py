"""Pages: frames, results and findings as self-contained HTML."""
