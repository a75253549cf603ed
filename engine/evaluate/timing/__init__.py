"""Times: one call on the device, paired samples, the GPU's state beside them."""
