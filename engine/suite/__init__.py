"""The 59 problems of the suite on a real GPU: every program against its module, in error and in time.

    python -m engine suite [--device cuda|cpu] [--only L1/1,conv2d_wide] [--jobs 12] [--seconds S] --json OUT

A problem is a module of engine/problems whose first line names it `(suite59 L1/55)`; its programs are the files of
dsl/examples/suite59 that say `# module: NAME` in their first line. A program's parameters bind by name: an input of
`forward`, or a path in the module's state with underscores for dots (`norm.running_mean` is `norm_running_mean`),
seen in the shape that the program gives it.

cases    what there is to run                       (no torch)
runner   checks, builds ahead, asks the child, writes the results, goes on where it stopped   (no torch)
problem  a module, its inputs and what is right     (torch)
child    the process that owns the GPU              (torch)
"""
