"""What clients do, one file each: pure scripts."""
