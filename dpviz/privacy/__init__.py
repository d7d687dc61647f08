"""Privacy: events, budgets and accounting, and the mechanisms, the only place where privacy noise is drawn."""
