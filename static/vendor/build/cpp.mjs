// C++ for the views of generated code: half as large as all the rest of CodeMirror's languages, and seldom looked at first.
export { cpp } from "@codemirror/lang-cpp";
