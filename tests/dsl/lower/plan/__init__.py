"""Tests of the cute back end."""
