"""The words of the page."""

TITLE = "Momentum"
QUESTION = "**How much momentum can a budget afford?**"
NOT_COVERED = "Choosing the share by trying is not accounted for."
