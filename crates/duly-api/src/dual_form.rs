//! Values that a sender writes as text or as a number in JSON, and as a message in protobuf.

/// Gives a type its two forms: text or a number in JSON, the bytes of `$message` in protobuf.
///
/// `$inner` returns the message; `$allowed` describes the allowed JSON, and `$fraction` for a number that is not an
/// integer. `$schema_name` is no
/// name of a class that generated clients import, as `Time` and `Duration` are.
macro_rules! dual_form {
    ($name:ident: $variant:ident($message:ty), $inner:ident, ($allowed:expr, $fraction:path), $schema:path, $schema_name:literal) => {
        impl $name {
            /// Returns the value of a query parameter: a number, or text.
            pub fn of_query(text: &str) -> Self {
                text.parse().map_or_else(|_| Self::Text(text.to_owned()), Self::Bare)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$variant(<$message>::default())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    Self::Text(text) => f.write_str(text),
                    Self::Bare(number) => number.fmt(f),
                    Self::$variant(message) => match self.check("") {
                        Ok(value) => value.fmt(f),
                        Err(_) => message.fmt(f),
                    },
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Bare(number) => serializer.serialize_i128(*number),
                    other => serializer.collect_str(other),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Visitor;

                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($allowed)
                    }

                    fn visit_str<E>(self, text: &str) -> Result<$name, E> {
                        Ok($name::Text(text.to_owned()))
                    }

                    fn visit_u64<E>(self, number: u64) -> Result<$name, E> {
                        Ok($name::Bare(i128::from(number)))
                    }

                    fn visit_i64<E>(self, number: i64) -> Result<$name, E> {
                        Ok($name::Bare(i128::from(number)))
                    }

                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$name, E> {
                        let seen = serde::de::Unexpected::Float(number);
                        Err(E::invalid_value(seen, &&*$fraction(number)))
                    }
                }

                from.deserialize_any(Visitor)
            }
        }

        impl prost::Message for $name {
            fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
                self.$inner().encode_raw(buffer);
            }

            fn merge_field(
                &mut self,
                tag: u32,
                wire_type: prost::encoding::WireType,
                buffer: &mut impl bytes::Buf,
                context: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                let mut message = self.$inner();
                message.merge_field(tag, wire_type, buffer, context)?;
                *self = Self::$variant(message);
                Ok(())
            }

            fn encoded_len(&self) -> usize {
                self.$inner().encoded_len()
            }

            fn clear(&mut self) {
                *self = Self::default();
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                $schema()
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                $schema_name.into()
            }
        }
    };
}
