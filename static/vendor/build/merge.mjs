// The view of a diff, which comes when one is asked for.
export { MergeView, unifiedMergeView } from "@codemirror/merge";
