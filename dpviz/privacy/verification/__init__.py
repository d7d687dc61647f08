"""Whether releases are what was declared, and how likely they were on another data set."""
