//! The OpenAPI description of a route, for the layer in front of it: its methods, and which of them take
//! query parameters.

use std::{collections::BTreeMap, sync::OnceLock};

use http::Method;
use utoipa::openapi::{
    RefOr,
    path::{Operation, Parameter, ParameterIn, PathItem},
};

/// A described route.
#[derive(Debug)]
pub(super) struct RouteDescription {
    /// The methods, as `Allow` lists them.
    pub(super) methods: String,
    /// Methods without query parameters.
    plain: Vec<Method>,
}

impl RouteDescription {
    /// Returns the route with this path; `None` for an unmatched path.
    pub(super) fn route(path: &str) -> Option<&'static Self> {
        static ROUTES: OnceLock<BTreeMap<String, RouteDescription>> = OnceLock::new();
        let routes = ROUTES.get_or_init(|| {
            let (_, document) = super::routes().split_for_parts();
            let paths = document.paths.paths.into_iter();
            paths.map(|(path, item)| (path, Self::of(&item))).collect()
        });
        routes.get(path)
    }

    /// Returns `true` if `method` is one of the route's and takes no query parameter.
    pub(super) fn takes_no_parameter(&self, method: &Method) -> bool {
        self.plain.contains(method)
    }

    fn of(item: &PathItem) -> Self {
        let mut methods = Vec::new();
        let mut plain = Vec::new();
        for (names, operation) in [
            (&[Method::GET, Method::HEAD][..], &item.get),
            (&[Method::POST], &item.post),
            (&[Method::PUT], &item.put),
            (&[Method::PATCH], &item.patch),
            (&[Method::DELETE], &item.delete),
        ] {
            let Some(operation) = operation else { continue };
            methods.extend(names.iter().map(Method::as_str));
            if !has_query(operation) {
                plain.extend_from_slice(names);
            }
        }
        Self { methods: methods.join(", "), plain }
    }
}

fn has_query(operation: &Operation) -> bool {
    let is_query = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) => parameter.parameter_in == ParameterIn::Query,
        RefOr::Ref(_) => true,
    };
    operation.parameters.iter().flatten().any(is_query)
}
