"""From rollout records to weight updates: rows, forward pass, loss, optimiser and diagnostics."""
