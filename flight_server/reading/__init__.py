"""Reading: plans, endpoints, lookups and changes between versions, free of Flight types."""
