"""Files for download: tables, programs, notebooks, reports. No formula."""
