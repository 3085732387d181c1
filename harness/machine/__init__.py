"""What ackloss keeps on this machine outside any run: folders, registered runs, configuration."""
