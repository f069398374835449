"""What a model computes otherwise on a GPU: precision, attention, and kernels in Triton.

`softmax` and `elementwise` import Triton, so `kernels` imports them, where they work. On a CPU nothing of this is used.
"""
