"""Where models are: in a folder, in the local cache of the Hugging Face hub, or on the hub."""
