"""The systems behind BFCL's multi-turn functions, written from the files that document the functions."""
