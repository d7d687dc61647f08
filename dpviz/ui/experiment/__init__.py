"""What any algorithm page consists of: choose, plan, run, show."""
