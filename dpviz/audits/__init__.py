"""Attackers against claims of privacy: cases, what they test, mistakes made on purpose."""
