"""JAX and XLA: the profiles of TensorFlow's profiler plug-in, memory profiles."""
