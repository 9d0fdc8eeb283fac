"""Running a plan: windows of rows, decoded ahead within a budget, become batches."""
