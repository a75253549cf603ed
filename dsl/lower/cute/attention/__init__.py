"""Attention: the kernel of flash-attn-4, and one in f32 for the rescue of a guard."""
