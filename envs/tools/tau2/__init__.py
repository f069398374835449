"""tau2's domains, played from its files: `tools/Tau2-v0`."""
