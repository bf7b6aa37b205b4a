use http_body_util::BodyExt;

use super::*;
use crate::memory::budget::Budget;

const MIB: usize = 1024 * 1024;

async fn whole(text: ResponseText) -> String {
    let body = text.into_response(StatusCode::OK).into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn p10_pages_end_before_an_item_that_does_not_fit() {
    let budget = Budget::new(MIB);
    let mut text = ResponseText::new(budget.empty_reservation());
    text.raw("[").unwrap();
    let item = "x".repeat(100_000);
    let count = text.fill(std::iter::repeat_n(&item, 20), ResponseText::item).unwrap();
    assert!((6..8).contains(&count), "{count} of the 7 that fit into three quarters");
    text.raw("]").unwrap();
    let text = whole(text).await;
    assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), vec![item; count]);
    let all = budget.reserve(MIB * 3 / 4);
    assert!(all.is_ok(), "what was written is given back");
}

#[test]
fn p10_a_single_item_over_the_budget_is_refused() {
    let mut text = ResponseText::new(Budget::new(MIB).empty_reservation());
    assert!(text.fill([&"x".repeat(MIB)].into_iter(), ResponseText::item).is_err());
}

#[test]
fn lines_have_no_breaks_inside() {
    let mut text = ResponseText::new(Budget::new(MIB).empty_reservation());
    let raw: &serde_json::value::RawValue = serde_json::from_str("{\r\n \"a\": 1\n}").unwrap();
    text.line(&raw).unwrap();
    text.line(&"b").unwrap();
    let parts: Vec<_> = text.into_parts().into();
    assert_eq!(parts.concat(), b"{ \"a\": 1}\n\"b\"\n");
}
