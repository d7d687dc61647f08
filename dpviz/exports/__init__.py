"""What leaves as a file: tables, programs, notebooks, reports. No formula."""
