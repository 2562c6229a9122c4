//! PromQL: parser, plan and evaluation over the storage traits.
