//! `/api/v1/openapi.yaml`: the description of the API.
//!
//! **Invariant:** the document has exactly the calls that are served, which tests compare.

use http::{HeaderMap, HeaderValue, header};
use narthex_net::{
    Router,
    axum::{extract::RawQuery, response::Response, routing::get},
    respond,
};

/// Returns the route of the description.
pub(super) fn routes() -> Router {
    Router::new().route("/api/v1/openapi.yaml", get(document))
}

async fn document(RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    let text = text(query.as_deref().unwrap_or_default());
    let mut response = respond("application/yaml; charset=utf-8", text.into(), &headers);
    let no_cache = HeaderValue::from_static("no-cache, no-store, must-revalidate");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_cache);
    response
}

/// Returns the document in the version of OpenAPI that a query asks for. What it says is the same in both.
fn text(query: &str) -> String {
    let wants_newer = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("openapi_version="))
        .any(|version| matches!(version, "3.2" | "3.2.0"));
    let text = include_str!("openapi.yaml").replacen("VERSION", env!("CARGO_PKG_VERSION"), 1);
    if wants_newer {
        text.replacen("openapi: 3.1.0", "openapi: 3.2.0", 1)
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_yaml::{Node, Value};
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::Path,
    };

    fn root() -> Node {
        narthex_yaml::read(&text("")).unwrap()
    }

    /// Returns the paths that are described, with their methods.
    fn described() -> BTreeMap<String, Vec<String>> {
        let root = root();
        let paths = pairs(root.get("paths").unwrap());
        let methods = |item: &Node| {
            let names = pairs(item).into_iter().map(|(name, _)| name);
            names.filter(|name| name != "servers").collect()
        };
        let whole = |path: &str, item: &Node| match item.get("servers") {
            Some(_) => path.to_owned(),
            None => format!("/api/v1{path}"),
        };
        let paths = paths.into_iter();
        paths
            .map(|(path, item)| (whole(&path, item), methods(item)))
            .collect()
    }

    fn pairs(node: &Node) -> Vec<(String, &Node)> {
        match &node.value {
            Value::Map(pairs) => pairs
                .iter()
                .map(|(key, value)| (key.text.clone(), value))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn scalar(node: &Node) -> &str {
        match &node.value {
            Value::Scalar(scalar) => &scalar.text,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the literals of all `route("…"` in the program, and of the rows `("…"` of the API's tables.
    fn routed() -> BTreeSet<String> {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut found = BTreeSet::new();
        for name in [
            "api", "narthex", "notify", "push", "remote", "rules", "scrape",
        ] {
            scan(&crates.join(name).join("src"), &mut found);
        }
        found
    }

    fn scan(path: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                scan(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let rows = text.lines().filter(|_| path.ends_with("api/src/lib.rs"));
                let rows = rows.filter_map(|line| line.trim_start().strip_prefix('('));
                for rest in text.split("route(").skip(1).chain(rows) {
                    let literal = rest.trim_start().strip_prefix('"');
                    let literal = literal.and_then(|rest| rest.split_once('"'));
                    found.extend(literal.map(|(path, _)| path.to_owned()));
                }
            }
        }
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let mut routed = routed();
        // The pages of people, the push gateway's own paths, and the page's files.
        for path in ["/push", "/push/push.js", "/{*path}"] {
            assert!(routed.remove(path), "{path}");
        }
        routed.retain(|path| !path.starts_with("/metrics/job"));
        let described: BTreeSet<String> = described().into_keys().collect();
        assert_eq!(described, routed);
    }

    #[test]
    fn references_lead_somewhere_and_operations_have_distinct_names() {
        let root = root();
        let mut waiting = vec![&root];
        let (mut references, mut names) = (0, BTreeSet::new());
        while let Some(node) = waiting.pop() {
            for (key, value) in pairs(node) {
                if key == "$ref" {
                    references += 1;
                    let path = scalar(value).strip_prefix("#/").unwrap();
                    let end = path.split('/').try_fold(&root, |node, key| node.get(key));
                    assert!(end.is_some(), "{path}");
                }
                if key == "operationId" {
                    assert!(names.insert(scalar(value).to_owned()), "{}", scalar(value));
                    assert!(node.get("responses").is_some());
                }
                waiting.push(value);
            }
            if let Value::List(items) = &node.value {
                waiting.extend(items);
            }
        }
        assert!(
            references > 50 && names.len() > 60,
            "{references} {}",
            names.len()
        );
    }

    #[test]
    fn the_newer_version_is_served_when_it_is_asked_for() {
        assert!(text("").starts_with("openapi: 3.1.0\n"));
        assert!(text("a=b&openapi_version=3.2").starts_with("openapi: 3.2.0\n"));
        assert!(!text("").contains("VERSION"));
    }
}
