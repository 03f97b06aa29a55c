//! One shard of one job: rows and windows, which are true of each other (rule I1).

use windlass_common::coordination::ShardReport;
use windlass_common::format::{Mark, ShardImage};
use windlass_common::id::{Clock, Incarnation, Lineage, Lsn, ShardId};
use windlass_common::schema::JobSchema;
use windlass_common::windows::Windows;

use crate::error::Error;
use crate::savings::Savings;
use crate::table::Table;

/// A shard in memory. The store keeps it under a mutex; whoever holds that sees one moment of it.
#[derive(Clone, Debug)]
pub struct Shard {
    pub(crate) id: ShardId,
    pub(crate) lineage: Lineage,
    /// How many pushes were applied; END pushes have no rows and do not count.
    pub(crate) clock: Clock,
    pub(crate) windows: Windows,
    /// The last record of the log that is about this shard.
    pub(crate) logged: Lsn,
    /// In the schema's order.
    pub(crate) tables: Vec<Table>,
    /// What was saved of it last.
    pub(crate) savings: Savings,
}

impl Shard {
    /// Starts without rows and without pushes: the legal start of everything (rule I1).
    #[must_use]
    pub fn new(id: ShardId, lineage: Lineage, schema: &JobSchema) -> Self {
        let table = |t| Table::new(t, schema.seed, schema.shards);
        Self {
            id,
            lineage,
            clock: Clock(0),
            windows: Windows::default(),
            logged: Lsn(0),
            tables: schema.tables.iter().map(table).collect(),
            savings: Savings::default(),
        }
    }

    /// Takes an image, in a lineage that need not be the one it was saved in.
    ///
    /// # Errors
    /// [`Error::ImageIsDelta`], [`Error::ImageMismatch`] when it has other tables than the schema,
    /// [`Error::ImageForeignKey`] and the errors of [`Table::from_image`].
    pub fn from_image(
        image: &ShardImage,
        lineage: Lineage,
        schema: &JobSchema,
    ) -> Result<Self, Error> {
        if let Some(base) = image.base {
            return Err(Error::ImageIsDelta {
                shard: image.shard,
                base: base.checkpoint,
            });
        }
        if image.tables.len() != schema.tables.len() {
            return Err(Error::ImageMismatch {
                what: "number of tables".into(),
                image: image.tables.len(),
                schema: schema.tables.len(),
            });
        }
        let mut new = Self::new(image.shard, lineage, schema);
        new.clock = image.clock;
        new.windows = image.windows.clone();
        let tables = new.tables.iter_mut().zip(&schema.tables);
        for ((table, schema_of), rows) in tables.zip(&image.tables) {
            let mut keys = rows.keys.iter();
            if let Some(&key) = keys.find(|&&k| schema.shards.shard_of(k) != image.shard) {
                return Err(Error::ImageForeignKey {
                    table: schema_of.name.clone(),
                    shard: image.shard,
                    key,
                });
            }
            *table = Table::from_image(schema_of, schema.seed, schema.shards, rows)?;
        }
        Ok(new)
    }

    /// Copies everything, as of now (rule A6). The copy has no mark, so that equal content is equal
    /// bytes; those that a log is cut by are made by `copy`.
    #[must_use]
    pub fn image(&self) -> ShardImage {
        ShardImage {
            shard: self.id,
            lineage: self.lineage,
            mark: Mark::default(),
            base: None,
            clock: self.clock,
            windows: self.windows.clone(),
            tables: self.tables.iter().map(Table::image).collect(),
        }
    }

    /// Whether no push has ever come: then there are no rows either.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.windows == Windows::default()
    }

    /// How many rows there are, over all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|t| t.len() as u64).sum()
    }

    /// Gives this owner's word about the shard (rule I2).
    #[must_use]
    pub fn report(&self, incarnation: Incarnation) -> ShardReport {
        let open = self.windows.open().iter();
        ShardReport {
            shard: self.id,
            incarnation,
            lineage: self.lineage,
            complete: self.windows.complete().clone(),
            open: open
                .map(|(&source, window)| (source, window.next))
                .collect(),
            rows: self.rows(),
            clock: self.clock,
        }
    }

    /// Replaces the shard by a restored one and returns what it was.
    ///
    /// # Errors
    /// [`Error::RestoreTooLate`] when pushes of the new lineage, or of a later one, are in the
    /// shard: taking them out would make the reports about them untrue. Installing the same again,
    /// before the first push, is harmless and allowed.
    pub fn restore(&mut self, new: Self) -> Result<Self, Error> {
        let begun = self.windows != Windows::default() && self.windows != new.windows;
        // N4: a lineage begins with a restore, or with nothing.
        if new.lineage < self.lineage || (new.lineage == self.lineage && begun) {
            return Err(Error::RestoreTooLate {
                shard: self.id,
                offered: new.lineage,
                held: self.lineage,
            });
        }
        Ok(std::mem::replace(self, new))
    }
}
