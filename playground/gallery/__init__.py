"""The gallery: recordings worth seeing, the results of the suite, two sessions side by side."""
