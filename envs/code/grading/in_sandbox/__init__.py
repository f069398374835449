"""Programs that run inside the sandbox; the host reads them as text and sends them there."""
