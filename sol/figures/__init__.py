"""Every figure of the project, built once with plotly's graph objects, for the page, reports and exports alike.

A builder returns a `Figure`: JSON for Plotly with the rows of a table that says the same and a caption. The page draws
that JSON with Plotly.react (static/js/chart.js); reports and exports draw it as an SVG (sol.figures.svg).

    roofline     roofs and runs            history      speedup by trial, with limits and stop rules
    breakdown    units, limit, PyTorch     stages       a run stage by stage, and as a waterfall
    shares       share of each limit       choices      stop policies, levers predicted and observed

Rules for every figure: a predicted time is hollow or pale, a measured one filled; colours are Okabe and Ito's with a
marker shape for each class (sol.figures.palette); `uirevision` keeps a zoom over redraws; the order of traces is the
same in each redraw. plotly is imported when the first figure is built, not before: it takes 0.1 s.
"""

from sol.figures.figure import Figure

__all__ = ["Figure"]
