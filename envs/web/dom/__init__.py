"""The DOM-only engine: pages are parsed, read and acted on in this process, without a browser and without scripts."""
