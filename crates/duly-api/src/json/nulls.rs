//! Reads a structure together with the names of its fields that are `null`.
//!
//! A change resets a field that is `null` and keeps one that is absent; serde makes `None` of both.

use std::fmt;

use serde::{
    Deserialize,
    de::{
        DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor,
        value::MapAccessDeserializer,
    },
    forward_to_deserialize_any,
};

/// A structure, and the names of its fields that are `null`.
#[derive(Debug)]
pub struct Nulls<T> {
    /// The structure.
    pub value: T,
    /// The names.
    pub names: Vec<String>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nulls<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Nulls<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Nulls<T>, A::Error> {
                let mut names = Vec::new();
                let recording = NullRecordingMap { map, names: &mut names, name: String::new() };
                let value = T::deserialize(MapAccessDeserializer::new(recording))?;
                Ok(Nulls { value, names })
            }
        }

        deserializer.deserialize_map(Fields(std::marker::PhantomData))
    }
}

/// A map that notes the names of its `null` fields.
struct NullRecordingMap<'n, A> {
    map: A,
    names: &'n mut Vec<String>,
    name: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for NullRecordingMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.map.next_key::<String>()? {
            Some(name) => {
                self.name = name;
                seed.deserialize((*self.name).into_deserializer()).map(Some)
            }
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let mut is_null = false;
        let value =
            self.map.next_value_seed(NullDetector { inner: seed, is_null: &mut is_null })?;
        if is_null {
            self.names.push(std::mem::take(&mut self.name));
        }
        Ok(value)
    }
}

/// A seed, deserializer or visitor that notes a `null`.
struct NullDetector<'n, T> {
    inner: T,
    is_null: &'n mut bool,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for NullDetector<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(NullDetector { inner: deserializer, is_null: self.is_null })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for NullDetector<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(NullDetector { inner: visitor, is_null: self.is_null })
    }

    // Fields of a change may be left out, so all of them are read as an option.
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for NullDetector<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        *self.is_null = true;
        self.inner.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        *self.is_null = true;
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(deserializer)
    }
}
