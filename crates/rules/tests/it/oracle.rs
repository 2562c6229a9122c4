//! A client of `testkit/oracle`, which answers with Prometheus' own packages.

use narthex_testkit::{LineServer, go_program};
use serde_json::{Value, json};

pub(crate) struct Oracle(LineServer);

impl Oracle {
    pub(crate) fn start() -> Self {
        Self(LineServer::start(&go_program("oracle")))
    }

    /// Asks for all errors in the text of a rule file.
    pub(crate) fn rules(&mut self, text: &str, legacy: bool) -> Vec<String> {
        let answer = self.ask(json!({ "rules": { "text": text, "legacy": legacy } }));
        serde_json::from_value(answer["result"].clone()).unwrap()
    }

    /// Asks what a template expands to; an error begins with `error: `.
    pub(crate) fn template(&mut self, request: Value) -> String {
        let answer = self.ask(json!({ "template": request }));
        match answer["result"].as_str() {
            Some(text) => text.to_owned(),
            // An empty result is left out.
            None if answer["ok"] == true => String::new(),
            None => format!("error: {}", answer["error"].as_str().unwrap()),
        }
    }

    /// Asks what groups of rules make of series.
    pub(crate) fn evaluations(&mut self, request: Value) -> Value {
        let answer = self.ask(json!({ "evaluations": request }));
        assert_eq!(answer["ok"], true, "{answer}");
        answer["result"].clone()
    }

    fn ask(&mut self, request: Value) -> Value {
        serde_json::from_str(&self.0.ask(&request.to_string())).unwrap()
    }
}
