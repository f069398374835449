"""From records to weight updates: batches, the forward pass, the loss and the optimiser."""
