//! From `[model]` to a model and its loss.

use windlass_common::config::{ConfigError, DataConfig, Format, LossKind, ModelConfig, ModelKind};

use super::{Count, FactorizationMachine, Linear, MatrixFactorization, Model, Softmax};
use crate::loss::Loss;

/// Builds the model that the config names.
///
/// # Errors
/// [`ConfigError::Invalid`] where `mf` finds no users and items in the data.
pub fn build(model: &ModelConfig, data: &DataConfig) -> Result<Box<dyn Model>, ConfigError> {
    let (factors, std) = (model.factors as usize, model.init_std);
    Ok(match model.kind {
        ModelKind::Linear | ModelKind::Logistic => Box::new(Linear),
        ModelKind::Softmax => Box::new(Softmax::new(model.classes as usize)),
        ModelKind::Fm => Box::new(FactorizationMachine::new(factors, std)),
        ModelKind::Mf => {
            let (user, item) = user_and_item(model, data)?;
            Box::new(MatrixFactorization::new(factors, std, user, item))
        }
        ModelKind::Count => Box::new(Count),
    })
}

/// Says what the model that the config names minimises.
#[must_use]
pub fn loss(model: &ModelConfig) -> Loss {
    match (model.kind, model.loss) {
        (ModelKind::Linear | ModelKind::Mf, _) => Loss::Squared,
        (ModelKind::Logistic, _) => Loss::Logistic,
        (ModelKind::Softmax, _) => Loss::SoftmaxCrossEntropy,
        (ModelKind::Fm, LossKind::Logistic) => Loss::Logistic,
        (ModelKind::Fm, LossKind::Squared) => Loss::Squared,
        (ModelKind::Count, _) => Loss::Nothing,
    }
}

/// Finds the fields of users and items. In CSV a field is a column's place, categorical columns
/// first; libffm has only numbers, and the first two are taken.
fn user_and_item(model: &ModelConfig, data: &DataConfig) -> Result<(u16, u16), ConfigError> {
    let fields = match data.format {
        Format::Csv => data.categorical.len(),
        Format::Libffm => 2,
        Format::Libsvm | Format::Criteo => 0,
    };
    let field = |key: &str, name: Option<&String>, default: usize| {
        let at = match name {
            Some(name) => data.categorical.iter().position(|column| column == name),
            None => Some(default).filter(|&at| at < fields),
        };
        let rule = match name {
            Some(name) => format!("`{name}` is not in data.categorical; add it there"),
            None => "mf learns from a column of users and a column of items: use data.format \
                     \"csv\" and name both in data.categorical, or \"libffm\" with users in field \
                     0 and items in field 1"
                .into(),
        };
        at.and_then(|at| u16::try_from(at).ok())
            .ok_or_else(|| ConfigError::Invalid {
                key: key.into(),
                rule,
            })
    };
    let user = field("model.user", model.user.as_ref(), 0)?;
    let item = field("model.item", model.item.as_ref(), 1)?;
    if user == item {
        return Err(ConfigError::Invalid {
            key: "model.item".into(),
            rule: "users and items are the same column; name both model.user and model.item".into(),
        });
    }
    Ok((user, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(user: Option<&str>, item: Option<&str>) -> Result<(u16, u16), String> {
        let model = ModelConfig {
            user: user.map(str::to_owned),
            item: item.map(str::to_owned),
            ..ModelConfig::default()
        };
        let data = DataConfig {
            format: Format::Csv,
            categorical: vec!["day".into(), "movie".into(), "viewer".into()],
            ..DataConfig::default()
        };
        user_and_item(&model, &data).map_err(|e| e.to_string())
    }

    #[test]
    fn users_and_items_are_found_by_name_or_are_the_first_two() {
        assert_eq!(columns(None, None), Ok((0, 1)));
        assert_eq!(columns(Some("viewer"), Some("movie")), Ok((2, 1)));
        assert_eq!(columns(Some("viewer"), None), Ok((2, 1)));
    }

    #[test]
    fn unknown_or_equal_columns_are_refused_by_name() {
        let error = columns(Some("voter"), None).unwrap_err();
        assert!(
            error.contains("model.user") && error.contains("`voter`"),
            "{error}"
        );
        let error = columns(Some("movie"), None).unwrap_err();
        assert!(
            error.contains("model.item") && error.contains("same column"),
            "{error}"
        );
    }

    #[test]
    fn mf_takes_libffm_and_refuses_data_without_fields() {
        let of = |format| {
            let data = DataConfig {
                format,
                ..DataConfig::default()
            };
            user_and_item(&ModelConfig::default(), &data)
        };
        assert_eq!(of(Format::Libffm).unwrap(), (0, 1));
        assert!(
            of(Format::Libsvm)
                .unwrap_err()
                .to_string()
                .contains("libffm")
        );
    }

    #[test]
    fn every_kind_has_its_tables_outputs_and_loss() {
        let data = DataConfig {
            format: Format::Libffm,
            ..DataConfig::default()
        };
        let check = |kind, expected_loss, outputs, tables: &[(&str, usize)]| {
            let config = ModelConfig {
                kind,
                classes: 5,
                factors: 3,
                ..ModelConfig::default()
            };
            let model = build(&config, &data).unwrap();
            let shapes = model.tables();
            let shapes: Vec<_> = shapes.iter().map(|t| (t.name, t.dim)).collect();
            assert_eq!(shapes, tables, "{kind:?}");
            assert_eq!(model.outputs(), outputs, "{kind:?}");
            assert_eq!(loss(&config), expected_loss, "{kind:?}");
        };
        check(ModelKind::Linear, Loss::Squared, 1, &[("linear", 1)]);
        check(ModelKind::Logistic, Loss::Logistic, 1, &[("linear", 1)]);
        check(
            ModelKind::Softmax,
            Loss::SoftmaxCrossEntropy,
            5,
            &[("linear", 5)],
        );
        check(
            ModelKind::Fm,
            Loss::Logistic,
            1,
            &[("linear", 1), ("factors", 3)],
        );
        check(
            ModelKind::Mf,
            Loss::Squared,
            1,
            &[("biases", 1), ("factors", 3)],
        );
        check(ModelKind::Count, Loss::Nothing, 1, &[("count", 3)]);
    }
}
