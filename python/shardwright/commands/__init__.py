"""The command line's commands that need torch: one file each."""
