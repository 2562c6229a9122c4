//! A client of `testkit/oracle`, which answers with Prometheus' own packages.

use narthex_testkit::{LineServer, go_program};
use serde_json::{Value, json};

pub(crate) struct Oracle(LineServer);

/// Prometheus' result, or the text of its error.
pub(crate) type Answer = Result<Value, String>;

impl Oracle {
    pub(crate) fn start() -> Self {
        Self(LineServer::start(&go_program("oracle")))
    }

    /// Asks which of `texts` a pattern matches and what `template` expands to for each.
    pub(crate) fn pattern(
        &mut self,
        form: &str,
        pattern: &str,
        texts: &[&str],
        template: &str,
    ) -> Answer {
        self.ask(json!({ "regexp": {
            "form": form, "pattern": pattern, "texts": texts, "template": template,
        }}))
    }

    /// Asks for the result of applying rules in YAML to labels.
    pub(crate) fn relabel(&mut self, rules: &str, legacy: bool, labels: &Value) -> Answer {
        self.ask(json!({ "relabel": { "rules": rules, "legacy": legacy, "labels": labels } }))
    }

    fn ask(&mut self, request: Value) -> Answer {
        let answer: Value = serde_json::from_str(&self.0.ask(&request.to_string())).unwrap();
        if answer["ok"] == true {
            Ok(answer["result"].clone())
        } else {
            Err(answer["error"].as_str().unwrap().to_owned())
        }
    }
}
