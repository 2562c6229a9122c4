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

    /// Asks for Go's function of numbers.
    pub(crate) fn numbers(&mut self, function: &str, args: &[f64], second: &[f64]) -> Vec<f64> {
        let bits = |all: &[f64]| -> Vec<String> {
            all.iter().map(|x| format!("{:x}", x.to_bits())).collect()
        };
        let request = json!({ "function": function, "args": bits(args), "second": bits(second) });
        let answer = self.ask(json!({ "numbers": request })).unwrap();
        let number =
            |text: &Value| f64::from_bits(u64::from_str_radix(text.as_str().unwrap(), 16).unwrap());
        answer.as_array().unwrap().iter().map(number).collect()
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
