//! Compares the interface with its committed snapshot: calls that were written for `contract/proto`
//! still compile, and mean the same on the wire.
//!
//! `cargo xtask contract` replaces the snapshot, together with a changelog entry.

use std::{collections::BTreeMap, path::Path};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto,
};

fn compiled(directory: &str) -> FileDescriptorSet {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut compiler = protox::Compiler::new([&root]).unwrap();
    let files = std::fs::read_dir(root.join("duly/v1")).expect("the files of the interface");
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    compiler.open_files(names.map(|name| format!("duly/v1/{name}"))).unwrap();
    compiler.file_descriptor_set()
}

/// Every name of the interface that a client can use, by its full name.
#[derive(Default)]
struct Interface<'a> {
    fields: BTreeMap<(String, i32), &'a FieldDescriptorProto>,
    values: BTreeMap<(String, i32), &'a str>,
    methods: BTreeMap<String, &'a MethodDescriptorProto>,
}

impl<'a> Interface<'a> {
    fn of(set: &'a FileDescriptorSet) -> Self {
        let mut interface = Self::default();
        for file in set.file.iter().filter(|file| file.package() == "duly.v1") {
            file.message_type.iter().for_each(|message| interface.message("", message));
            file.enum_type.iter().for_each(|it| interface.enumeration("", it));
            for service in &file.service {
                for method in &service.method {
                    let name = format!("{}.{}", service.name(), method.name());
                    interface.methods.insert(name, method);
                }
            }
        }
        interface
    }

    fn message(&mut self, outer: &str, message: &'a DescriptorProto) {
        let name = format!("{outer}{}", message.name());
        for field in &message.field {
            self.fields.insert((name.clone(), field.number()), field);
        }
        let outer = format!("{name}.");
        message.nested_type.iter().for_each(|inner| self.message(&outer, inner));
        message.enum_type.iter().for_each(|inner| self.enumeration(&outer, inner));
    }

    fn enumeration(&mut self, outer: &str, enumeration: &'a EnumDescriptorProto) {
        for value in &enumeration.value {
            let name = format!("{outer}{}", enumeration.name());
            self.values.insert((name, value.number()), value.name());
        }
    }
}

/// Returns the incompatible changes from the old interface to the new one.
fn breaks(old: &FileDescriptorSet, new: &FileDescriptorSet) -> Vec<String> {
    let (old, new) = (Interface::of(old), Interface::of(new));
    let mut breaks = Vec::new();
    let kind = |field: &FieldDescriptorProto| {
        let place = (field.oneof_index.is_some(), field.proto3_optional());
        (
            field.name().to_owned(),
            field.r#type(),
            field.type_name().to_owned(),
            field.label(),
            place,
        )
    };
    for ((message, number), field) in &old.fields {
        match new.fields.get(&(message.clone(), *number)) {
            Some(found) if kind(found) == kind(field) => {}
            Some(_) => breaks.push(format!("{message}.{} is another field now", field.name())),
            None => breaks.push(format!("{message}.{} is gone", field.name())),
        }
    }
    for ((name, number), value) in &old.values {
        if new.values.get(&(name.clone(), *number)) != Some(value) {
            breaks.push(format!("{name}.{value} is gone or has another number"));
        }
    }
    let shape = |method: &MethodDescriptorProto| {
        let streams = (method.client_streaming(), method.server_streaming());
        (method.input_type().to_owned(), method.output_type().to_owned(), streams)
    };
    for (name, method) in &old.methods {
        if new.methods.get(name).is_none_or(|found| shape(found) != shape(method)) {
            breaks.push(format!("{name} is gone or takes something else"));
        }
    }
    breaks
}

#[test]
fn the_interface_is_compatible_with_its_snapshot() {
    let breaks = breaks(&compiled("../../contract/proto"), &compiled("proto"));
    assert!(
        breaks.is_empty(),
        "clients written for contract/proto would break: {breaks:#?}\nIf that is meant, add a changelog entry and \
         run `cargo xtask contract`."
    );
}

#[test]
fn a_break_of_the_interface_is_noticed() {
    type Edit = fn(&mut FileDescriptorSet);
    fn message<'a>(set: &'a mut FileDescriptorSet, name: &str) -> &'a mut DescriptorProto {
        let mut messages = set.file.iter_mut().flat_map(|file| &mut file.message_type);
        messages.find(|message| message.name() == name).expect("it is there")
    }
    let edits: [(Edit, &str); 6] = [
        (|set| drop(message(set, "Retry").field.pop()), "Retry.delays is gone"),
        (|set| message(set, "Retry").field[0].number = Some(99), "Retry.max_attempts is gone"),
        (|set| message(set, "Retry").field[0].name = Some("most".into()), "another field now"),
        (|set| message(set, "Timer").field[0].label = Some(3), "Timer.namespace is another"),
        (
            |set| {
                let mut enums = set.file.iter_mut().flat_map(|file| &mut file.enum_type);
                drop(enums.find(|it| it.name() == "State").unwrap().value.pop());
            },
            "State.",
        ),
        (
            |set| {
                let mut services = set.file.iter_mut().flat_map(|file| &mut file.service);
                services.find(|it| it.name() == "Timers").unwrap().method.remove(0);
            },
            "Timers.Schedule is gone",
        ),
    ];
    let old = compiled("proto");
    for (edit, expected) in edits {
        let mut new = old.clone();
        edit(&mut new);
        let found = breaks(&old, &new);
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
    }
    let mut larger = old.clone();
    let added =
        FieldDescriptorProto { number: Some(99), ..message(&mut larger, "Timer").field[0].clone() };
    message(&mut larger, "Timer").field.push(added);
    assert_eq!(breaks(&old, &larger), Vec::<String>::new(), "an added field is compatible");
}
