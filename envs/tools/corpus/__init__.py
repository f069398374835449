"""Questions about a corpus of documents that the user supplies."""
