// The mistakes in a program, from /api/check, in the form for the editor and the lists.

/** One diagnostic of the language as the page uses it: 1-based places, a title and details. */
function diagnostic(d) {
  const span = d.span ?? d;
  const more = [...(d.notes ?? []), d.help ? `help: ${d.help}` : null].filter(Boolean).join("\n");
  return {
    code: d.code ?? "",
    title: d.message ?? d.title ?? "",
    more,
    line: span.line ?? 1,
    column: span.column ?? span.col ?? 1,
    endLine: span.end_line ?? span.line ?? 1,
    endColumn: span.end_column ?? span.end_col ?? (span.column ?? span.col ?? 1) + 1,
    message: [d.code ? `${d.code} ${d.message}` : d.message, more].filter(Boolean).join("\n"),
    fix: d.fix ?? null,
  };
}

export function fromServer(answer) {
  const diagnostics = (answer.diagnostics ?? []).map(diagnostic);
  return { ok: answer.ok ?? diagnostics.length === 0, diagnostics, resolved: answer.resolved ?? null };
}
