"""What a guarantee is and what noise costs: events, budgets, accountants, and the only place where noise is drawn."""
