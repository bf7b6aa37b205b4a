//! P11: payloads and header values come out byte for byte, in the form in which they were given.

use serde_json::value::RawValue;

use crate::bench::Bench;

#[derive(serde::Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(serde::Deserialize)]
struct Leased<'a> {
    #[serde(borrow)]
    firings: Vec<Raw<'a>>,
}

#[tokio::test]
async fn p11_the_exact_json_text_is_kept() {
    let bench = Bench::new();
    let texts = [
        "null",
        "1e2",
        "1.0",
        "-0",
        "123456789012345678901234567890.0000",
        "\"\\u00fc\\/ü\"",
        "{ \"b\" : 1 ,\n\t\"a\": [ ] , \"b\":2 }",
        "[1,  2]",
        "true",
    ];
    for (i, text) in texts.iter().enumerate() {
        let body = format!("{{\"id\":\"{i}\", \"delay\":0, \"payload\" :  {text}  }}");
        let made = bench.schedule(&body).await;
        assert_eq!(made.status, 201, "{text}: {}", made.text);
        let got = bench.get(&format!("/v1/namespaces/a/timers/{i}")).await;
        let leased = bench.post("/v1/namespaces/a/lease", "{}").await;
        let raw: Raw = serde_json::from_str(&made.text).unwrap();
        assert_eq!(raw.payload.get(), *text);
        let raw: Raw = serde_json::from_str(&got.text).unwrap();
        assert_eq!(raw.payload.get(), *text);
        let leased: Leased = serde_json::from_str(&leased.text).unwrap();
        assert_eq!(leased.firings[0].payload.get(), *text);
    }
}

#[tokio::test]
async fn p11_text_bytes_and_headers_are_kept() {
    let bench = Bench::new();
    let text = "\u{0}\u{1f}\"\\\u{7f}ü\u{1f600}\r\n";
    let body = serde_json::json!({"id":"t","delay":0,"payload_text":text,"headers":{"x":"a  b~!"}});
    bench.schedule(&body.to_string()).await.expect(201);
    let body = serde_json::json!({"id":"b","delay":0,"payload_base64":"AP+A/w=="});
    bench.schedule(&body.to_string()).await.expect(201);
    let body = serde_json::json!({"id":"e","delay":0,"payload_text":""});
    bench.schedule(&body.to_string()).await.expect(201);
    let leased = bench.post("/v1/namespaces/a/lease", r#"{"max":9}"#).await.expect(200);
    let by_id = |id: &str| {
        let firings = leased["firings"].as_array().unwrap();
        firings.iter().find(|f| f["id"] == id).unwrap().clone()
    };
    assert_eq!(by_id("t")["payload_text"], text);
    assert_eq!(by_id("t")["headers"]["x"], "a  b~!");
    assert_eq!(by_id("b")["payload_base64"], "AP+A/w==");
    assert_eq!(by_id("e")["payload_text"], "");
    for id in ["t", "b", "e"] {
        let firing = by_id(id);
        let forms = ["payload", "payload_text", "payload_base64"];
        let count = forms.iter().filter(|form| firing.get(form).is_some()).count();
        assert_eq!(count, 1, "{firing}");
    }
}
