// Rebuilds static/vendor from the exact versions in package.json. Run by `make vendor`, never by `make run`:
// the results are committed, and tests/browser/test_vendor_manifest.py holds every file to its SHA-256.
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const vendor = dirname(here);
const modules = join(here, "node_modules");
const pinned = JSON.parse(readFileSync(join(here, "package.json"), "utf8")).dependencies;
const info = (name) => JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));

function licenceOf(name) {
  const found = readdirSync(join(modules, name)).find((f) => /^(licen[cs]e|copying)/i.test(f));
  if (!found) throw new Error(`${name} carries no licence file`);
  return readFileSync(join(modules, name, found), "utf8").trim();
}

function folder(name, version) {
  const dir = join(vendor, `${name}-${version}`);
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  return dir;
}

// CodeMirror: one bundle, and beside it what a page loads when it needs it, which imports its packages from the bundle.
// Every package that esbuild took in is named with its licence.
const cm = folder("codemirror", pinned.codemirror);
const banner = { js: "/* CodeMirror 6 and Lezer, bundled by static/vendor/build. MIT: see LICENSE beside this file. */" };
const taken = new Set();
async function bundle(entry, name, plugins = []) {
  const result = await build({
    entryPoints: [join(here, entry)], outfile: join(cm, name), plugins, banner,
    bundle: true, minify: true, format: "esm", target: "es2022", metafile: true, legalComments: "none",
  });
  for (const path of Object.keys(result.metafile.inputs)) {
    const tail = path.split("node_modules/").pop();
    if (tail !== path) taken.add(tail.split("/").slice(0, tail.startsWith("@") ? 2 : 1).join("/"));
  }
}
const SHARED = ["@codemirror/language", "@codemirror/state", "@codemirror/view", "@lezer/highlight", "@lezer/lr"];
const fromBundle = {
  name: "from-bundle",
  setup: ({ onResolve }) => onResolve({ filter: /^@/ }, ({ path }) =>
    SHARED.includes(path) ? { path: "./codemirror.js", external: true } : null),
};
await bundle("entry.mjs", "codemirror.js");
for (const late of ["cpp", "merge"]) await bundle(`${late}.mjs`, `${late}.js`, [fromBundle]);
const packages = [...taken].sort().map((name) => ({ name, version: info(name).version, licence: info(name).license }));
writeFileSync(join(cm, "LICENSE"),
  packages.map((p) => `${p.name} ${p.version} (${p.licence})\n\n${licenceOf(p.name)}\n`).join("\n---\n\n"));

// Plotly basic: the published minified bundle, byte for byte.
const plotly = "plotly.js-basic-dist-min";
const pl = folder("plotly", pinned[plotly]);
copyFileSync(join(modules, plotly, "plotly-basic.min.js"), join(pl, "plotly-basic.min.js"));
writeFileSync(join(pl, "LICENSE"), licenceOf(plotly) + "\n");

const files = (dir) => Object.fromEntries(readdirSync(dir).sort().map((f) => [
  relative(vendor, join(dir, f)), createHash("sha256").update(readFileSync(join(dir, f))).digest("hex"),
]));
const manifest = [
  { name: "codemirror", version: pinned.codemirror, licence: "MIT", source: packages, files: files(cm) },
  { name: "plotly", version: pinned[plotly], licence: info(plotly).license,
    source: [{ name: plotly, version: pinned[plotly], licence: info(plotly).license }], files: files(pl) },
];
if (existsSync(join(vendor, "MANIFEST.json"))) {
  for (const old of JSON.parse(readFileSync(join(vendor, "MANIFEST.json"), "utf8"))) {
    if (!manifest.some((m) => m.name === old.name && m.version === old.version))
      rmSync(join(vendor, `${old.name}-${old.version}`), { recursive: true, force: true });
  }
}
writeFileSync(join(vendor, "MANIFEST.json"), JSON.stringify(manifest, null, 2) + "\n");
for (const m of manifest) console.log(m.name, m.version, Object.keys(m.files).join(" "));
