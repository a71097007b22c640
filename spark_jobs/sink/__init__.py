"""Writing: columns, the producer behind a task, transactions, and what was decided about batches."""
