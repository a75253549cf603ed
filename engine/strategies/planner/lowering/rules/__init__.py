"""Rules that lower one operation of a graph: products; convolutions, pools, reductions and norms; losses."""
